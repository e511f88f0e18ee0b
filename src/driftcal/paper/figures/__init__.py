"""The figures of experiments: what they show (`figure_data`), and how it is drawn."""
