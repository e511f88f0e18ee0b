"""Limits on the memory that a file may ask for, all in one place. An environment variable raises each of them.

A small file can ask for much memory: a picture of one colour, an archive of zeros, a header of nested lists. Each
reader therefore checks a limit before it unpacks anything.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from driftcal.errors import InputError


@dataclass(frozen=True)
class Limit:
    """A whole number that an environment variable replaces.

    Parameters
    ----------
    variable
        The environment variable.
    default
        The number without it.
    unit
        What is counted, for messages.
    covers
        What is limited, for the documentation.
    """

    variable: str
    default: int
    unit: str
    covers: str

    def value(self) -> int:
        """The number that applies now."""
        text = os.environ.get(self.variable)
        if not text:
            return self.default
        if not text.isdecimal() or int(text) < 1:
            raise InputError(
                f"the environment variable {self.variable} must be a whole number of {self.unit}, at least 1; it is {text!r}. "
                f"Unset it for the default {self.default:,}."
            )
        return int(text)

    def way_out(self) -> str:
        """The sentence of an error message that says how to raise this limit."""
        return f"If you trust the file, raise the limit with the environment variable {self.variable}."


#: Pixels of one image. The largest photographs of ImageNet have 24 million. One image takes up to 20 bytes per pixel.
IMAGE_PIXELS = Limit("DRIFTCAL_MAX_IMAGE_PIXELS", 1 << 26, "pixels", "one image, and what it is scaled to")
#: Bytes that any .npz file may unpack to.
ARRAY_BYTES = Limit("DRIFTCAL_MAX_ARRAY_BYTES", 1 << 30, "bytes", "what any .npz or Parquet file may unpack to")
#: How many times its size a larger .npz file may unpack to. Images with much black compress about 20 times.
ARRAY_RATIO = Limit(
    "DRIFTCAL_MAX_ARRAY_RATIO", 100, "times", "what a larger .npz or Parquet file may unpack to, per byte of the file"
)
#: Bytes that any model file may unpack to.
MODEL_BYTES = Limit("DRIFTCAL_MAX_MODEL_BYTES", 1 << 28, "bytes", "what any .pt2 or .keras file may unpack to")
#: How many times its size a larger model may unpack to. Frameworks store weights uncompressed, and they hardly
#: compress.
MODEL_RATIO = Limit(
    "DRIFTCAL_MAX_MODEL_RATIO", 10, "times", "what a larger model file may unpack to, per byte of the file"
)
#: Bytes of JSON that are parsed at once. Parsed values take up to 30 times the bytes of the text.
JSON_BYTES = Limit(
    "DRIFTCAL_MAX_JSON_BYTES", 1 << 24, "bytes", "results.json, and the header of a calibrator, monitor or cache file"
)

#: All limits, in the order of the documentation.
LIMITS = (IMAGE_PIXELS, ARRAY_BYTES, ARRAY_RATIO, MODEL_BYTES, MODEL_RATIO, JSON_BYTES)
