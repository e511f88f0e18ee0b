"""Reading the samples of a stream: lines of JSON or CSV, arrays, and the logs of inference servers."""
