# The exporter's tests: the wheel, PyTorch models.
packages test parity
# Files side by side, each with one thread of PyTorch: most of the time is its import and its tracing, which use one processor.
OMP_NUM_THREADS=1 REPORT="$RUN/python.xml" run_pytest -n "$JOBS" --dist loadfile weights/python/tests
# The model of tables on several GPUs: against closed forms, and each check on planted faults.
run_pytest tests/bench/peers_model/peers_model_test.py
check "an importer added by the recipe agrees with scikit-learn" "$PYTHON" tests/docs/recipes_test.py --importer
