# Apache Spark through the Python wheel: every row once, the same bits, also when an executor is killed.
# when: full
packages build test parity bindings
configure release && build release dpi_python_package || exit 1
venv="$BUILD/spark-venv" stamp="$BUILD/spark-venv/.installed"
pinned="pyspark==3.5.9 pyarrow==17.0.0"
wheel="$(bindings/python/build_wheel.sh "$BUILD/release")" || exit 1
if [ "$(cat "$stamp" 2>/dev/null)" != "$pinned" ]; then
  # shellcheck disable=SC2086
  { "$PYTHON" -m venv --clear --system-site-packages "$venv" && "$venv/bin/pip" install --quiet --disable-pip-version-check $pinned &&
    echo "$pinned" >"$stamp"; } || { echo "could not install $pinned"; exit 1; }
fi
"$venv/bin/pip" install --quiet --no-index --no-deps --force-reinstall "$wheel" || exit 1
SPARK_HOME="$("$venv/bin/python" -c 'import os, pyspark; print(os.path.dirname(pyspark.__file__))')"
# pip's Spark has no build folder to tell Scala's version by, which local-cluster looks for.
export SPARK_HOME SPARK_SCALA_VERSION=2.12 SPARK_LOCAL_IP=127.0.0.1 PYSPARK_PYTHON="$venv/bin/python"
PYTHON="$venv/bin/python"
run_pytest tests/spark
exit 0
