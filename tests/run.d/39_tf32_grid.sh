# fp32 as three tf32 products that truncate: every shape of the benchmark's grid, 4096 rows.
# when: full
check "all shapes keep the gate of fp32" "$BUILD/release/bin/tests/emu_tf32_grid" --all --rows=4096
