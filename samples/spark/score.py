#!/usr/bin/env python3
"""Scores a CSV or Parquet file with Apache Spark: one model per executor process, mapInPandas over the wheel `dpi`.

    score.py BUNDLE INPUT OUTPUT.parquet [--master local-cluster[2,1,1024]] [--partitions 8] [--split history=|]

The executors need the bundle at the same path (a shared folder, or --files of spark-submit) and Python with the wheel, pandas, pyarrow.
"""
import argparse
import os
import time

import dpi
from dpi_scoring import scorer
from pyspark.sql import SparkSession
from pyspark.sql.types import FloatType, StructField, StructType

HERE = os.path.dirname(os.path.abspath(__file__))


def session(master):
    """A session whose executors have dpi_scoring. A task that fails, or whose executor ends, is run again (spark.task.maxFailures)."""
    builder = SparkSession.builder.appName("dpi").master(master).config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.execution.arrow.maxRecordsPerBatch", "4096").config("spark.python.worker.reuse", "true").getOrCreate()
    spark.sparkContext.addPyFile(os.path.join(HERE, "dpi_scoring.py"))
    return spark


def read(spark, path):
    """The file as texts, which the bundle's encoders read as training did; Parquet with the types that it has."""
    return spark.read.parquet(path) if path.endswith(".parquet") else spark.read.csv(path, header=True, nullValue="\0")


def with_scores(frame, bundle, split, partitions):
    """The frame with a float column for each head."""
    with dpi.Model(bundle, device="cpu") as model:
        heads = model.heads
    schema = StructType(frame.schema.fields + [StructField(head, FloatType(), False) for head in heads])
    return frame.repartition(partitions).mapInPandas(scorer(bundle, split, device="cpu"), schema)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bundle")
    parser.add_argument("input")
    parser.add_argument("output")
    parser.add_argument("--master", default="local-cluster[2,1,1024]")
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--split", action="append", default=[], metavar="COLUMN=MARK")
    args = parser.parse_args()
    spark = session(args.master)
    try:
        frame = read(spark, args.input)
        rows, begin = frame.count(), time.perf_counter()
        split = dict(s.split("=", 1) for s in args.split)
        with_scores(frame, os.path.abspath(args.bundle), split, args.partitions).write.mode("overwrite").parquet(args.output)
        seconds, written = time.perf_counter() - begin, spark.read.parquet(args.output).count()
        print(f"{rows} rows in, {written} out, {seconds:.2f} s, {rows / seconds:.0f} rows/s")
        return 0 if rows == written else 1
    finally:
        spark.stop()


if __name__ == "__main__":
    raise SystemExit(main())
