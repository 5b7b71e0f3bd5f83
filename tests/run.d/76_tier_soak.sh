# Ten minutes of evictions from RocksDB and Redis while models come and go (every build runs some seconds of it).
# when: full
check "10 minutes of evictions: right scores, flat memory" env DPI_TEST_TIER_MINUTES=10 \
  "$BUILD/release/bin/tests/store_engine_tests" --device=cpu "--source-file=*/tests/store/engine/soak_test.cpp"
