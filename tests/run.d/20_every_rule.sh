# Include direction, size budgets, banned calls, layout, headers, exported symbols.
run_ctest release -L rules
