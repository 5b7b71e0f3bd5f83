# The exporter's tests: the wheel, PyTorch models.
packages test parity
REPORT="$RUN/python.xml" run_pytest weights/python/tests
# The model of tables on several GPUs: against closed forms, and each check on planted faults.
run_pytest tests/bench/peers_model/peers_model_test.py
check "an importer added by the recipe agrees with scikit-learn" "$PYTHON" tests/docs/recipes_test.py --importer
