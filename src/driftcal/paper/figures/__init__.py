"""The figures of experiments: their data (`figure_data`), and the functions that draw them."""
