#!/bin/sh
# Lets Java keep what Spark loads in VENV/spark.jsa; called by make_env.sh from the top of the checkout: share_classes.sh VENV
#
# Each time Spark starts, Java loads and checks some 12,000 classes. From a file that it has written once it has them in no time:
# Spark starts, and does little jobs, in 10 s instead of 19. Sessions on this machine, and the tests, take the file where it is.
set -eu

VENV=$1
PART=$VENV/spark.jsa.$$
trap 'rm -f "$PART"' EXIT
trap 'exit 143' TERM INT
rm -f "$VENV/spark.jsa"
JAVA_TOOL_OPTIONS="-XX:ArchiveClassesAtExit=$PART -XX:TieredStopAtLevel=1 -Xlog:disable" PYTHONPATH=$PWD \
    PYSPARK_PYTHON=$PWD/$VENV/bin/python PATH=$PWD/$VENV/bin:$PATH \
    spark-submit --master "local[2]" --conf spark.ui.enabled=false tools/train_spark.py >"$VENV/spark.log" 2>&1
mv "$PART" "$VENV/spark.jsa"
