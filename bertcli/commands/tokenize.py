"""`tokenize`: text or records to pieces."""

from __future__ import annotations

import functools

import click

from bertcli.commands.options import Streams, command, inputs, vocabulary
