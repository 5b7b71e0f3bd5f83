# The exporter's tests.
run_pytest weights/python/tests
