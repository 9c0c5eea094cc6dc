#!/bin/sh
# usage: consume_kcat.sh BOOTSTRAP (all records; without -e it also follows new ones)
kcat -C -q -e -b "$1" -t bailiff.audit -o beginning -f '%h %s\n'
