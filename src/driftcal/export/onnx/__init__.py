"""Calibrators as ONNX graphs of standard operators, in float64.

`calibration.py` adds the nodes of a whole map; the files in `maps/` add its parts. In functions that begin with
``add_``, an argument or result of type str is the name of a tensor in the graph, and a numpy array becomes a constant
of the graph. The last argument `name` is the name of the result; None: a new name.
"""
