# Rules over the sources: include direction, sizes, banned calls, layout, headers, exported symbols.
run_ctest release -L rules
