"""ONNX models: their files, their graphs, and the operators as calls of torch, which the tracer records (dpi_export/trace)."""
