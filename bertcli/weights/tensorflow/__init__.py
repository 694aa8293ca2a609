"""TensorFlow's checkpoints, read and written without TensorFlow; `bundle` is the way in, and knows no BERT."""
