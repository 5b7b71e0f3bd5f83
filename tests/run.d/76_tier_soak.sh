# Ten minutes of evictions from RocksDB and Redis, models coming and going (some seconds of it are among the tests of every build).
# when: full
# minutes: 15
check "10 minutes of evictions: right scores, flat memory" env DPI_TEST_TIER_MINUTES=10 "$BUILD/release/bin/tests/store_engine_soak_test" --device=cpu
