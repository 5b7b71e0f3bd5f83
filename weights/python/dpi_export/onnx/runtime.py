"""The file itself, run by ONNX Runtime where that is installed: another reading of every operator than the importer's own."""


def check_with_runtime(imported, rows, tolerance):
    """Compares."""
