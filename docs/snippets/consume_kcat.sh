#!/bin/sh
# usage: consume_kcat.sh BOOTSTRAP (all there is; without -e it goes on with what comes)
kcat -C -q -e -b "$1" -t bailiff.audit -o beginning -f '%h %s\n'
