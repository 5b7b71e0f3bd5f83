# Ten minutes of callers who share a pool (every build runs some seconds of it).
# when: full
check "10 minutes of 2 callers x 2 threads x 3 models: one thread's scores, no thread too many, the host as it was" "$BUILD/release/bin/tests/soak_callers" --minutes 10
