# Ten minutes of callers who share a pool (some seconds of it are among the tests of every build).
# when: full
# minutes: 15
check "10 minutes of 2 callers x 2 threads x 3 models: one thread's scores, no thread too many, the host as it was" "$BUILD/release/bin/tests/soak_callers" --minutes 10
