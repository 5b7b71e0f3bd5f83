# The documentation: every block of the guide runs over an installation, the site is built and checked.
packages build bindings docs
configure release && build release dpi dpi_program dpi_jni dpi_java dpi_go dpi_python_package || exit 1
installed="$RUN/docs/prefix" site="$RUN/docs/site"
mkdir -p "$RUN/docs"
cmake --install "$BUILD/release" --prefix "$installed" >"$RUN/docs/log" || { cat "$RUN/docs/log"; exit 1; }
cmake --install "$BUILD/release" --prefix "$installed" --component python >>"$RUN/docs/log" || { cat "$RUN/docs/log"; exit 1; }
jar="$(echo "$BUILD"/release/java/dpi-[0-9].[0-9].[0-9].jar)"

check "each check of the documentation finds what is planted for it" "$PYTHON" tests/docs/site_test.py --self-test
check "each check of pages without blocks finds what is planted for it" "$PYTHON" tests/docs/pages_test.py --self-test
check "texts that Troubleshooting quotes, the pod of Kubernetes, the table of Capacity" "$PYTHON" tests/docs/pages_test.py
check "the record of batchers, its page and its plots agree" "$PYTHON" tests/bench/under_load.py --check
check "a block that does not do what its page says is found" "$PYTHON" tests/docs/planted_test.py "$installed"
check "the blocks of the guide do what it says" "$PYTHON" tests/docs/blocks_test.py "$installed" --jar "$jar" --jobs "$JOBS"
check "somebody carries out each block of code outside the guide" "$PYTHON" tests/docs/readme_test.py "$installed" --jar "$jar"
check "the site builds" packaging/doc/build.sh --out "$site" --program "$BUILD/release/bin/dpi" &&
  check "the site is valid and whole: HTML, links, statuses, options, functions, commands" "$PYTHON" tests/docs/site_test.py "$site" \
    --library "$BUILD/release/lib/libdpi.so.1" --program "$BUILD/release/bin/dpi" --bundle weights/demo/msweb_deepfm.h5
check "search, next and previous: every section is found, every page is reached" "$PYTHON" tests/docs/search_test.py "$site"
exit 0
