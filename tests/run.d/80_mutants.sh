# Small planted faults, one at a time: a test must fail with each.
# when: full
packages build test aarch64
check "every mutant is caught, or equivalent for the reason in its patch" "$PYTHON" tests/mutants/run.py --jobs "$JOBS" --json "$BUILD/mutants.json"
