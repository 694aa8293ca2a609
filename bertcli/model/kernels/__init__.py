"""Triton kernels for what lies between a layer's products on a GPU, in half precision with sums in fp32.

They do what the plain layer does, reading and writing each number once. A product's bias is added here where it costs
nothing, and its gradient summed while the numbers are at hand. Dropout is drawn again in the backward pass, from a seed
on the device, instead of being kept. Every sum has a fixed order, so that they repeat bit for bit.

Shapes, in all files here: T tokens, B sequences, H width, F width of the feed-forward, D width of a head.
"""
