"""Curves out of rows, as a picture or in a terminal. Never torch; matplotlib only where a picture is made."""
