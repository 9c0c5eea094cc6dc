#!/bin/sh
# usage: train.sh STEPS (a sum in the file `weights`)
step=$(bailiff-job restore .) || exit
[ "$step" -gt 0 ] || echo 0 > weights
while [ "$step" -lt "$1" ]; do
  echo $(($(cat weights) + step * step)) > weights
  if bailiff-job should-checkpoint "$step"; then
    bailiff-job checkpoint "$step" weights
  fi
  if bailiff-job preempted; then
    bailiff-job yielding
    exit 85
  fi
  step=$((step + 1))
done
echo "weights $(cat weights)"
