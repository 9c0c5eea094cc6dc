#!/bin/sh
# usage: produce_kcat.sh BOOTSTRAP JOB [PROJECT]
printf '{"demand":{"job":"%s"%s,"tasks":[{"gpu_milli":1000,"cpu_milli":1000}]},"spec":{"command":"nvidia-smi || true"}}' \
  "$2" "${3:+,\"project\":\"$3\"}" |
  kcat -P -b "$1" -t bailiff.requests -H ce_specversion=1.0 -H "ce_id=submit-$2" -H ce_source=/example \
    -H ce_type=bailiff.SubmitJob.v1 -H ce_pool=pool-a
