"""The commands, one file each: parse, one library call, print."""
