# Ten minutes of a Redis cluster and a RocksDB store that break under callers, and an operator who names each fault (every build runs a minute of it).
# when: full
check "10 minutes of faults: no wrong score, nobody late, every fault named" env PYTHONDONTWRITEBYTECODE=1 "$PYTHON" tests/soak/chaos/chaos.py "$BUILD/release" "$RUN/chaos" --minutes 10 --seed "$RANDOM"
