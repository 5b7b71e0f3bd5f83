# The exporter's tests: the wheel by pip, the models of torch.
packages test parity
REPORT="$RUN/python.xml" run_pytest weights/python/tests
