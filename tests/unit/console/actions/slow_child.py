"""Stands in for the process of a what-if: it says how far it is, and ends when it is told to, or with its standard input."""

import json
import os
import sys

asked = json.loads(sys.stdin.readline())
kind = asked["yaml"]
print(json.dumps({"state": "reading", "done": 5, "of": asked["records"]}), flush=True)
if kind == "dies":
    os._exit(1)
if kind == "waits":
    sys.stdin.read()
    os._exit(1)
report = "<p>plots</p><script>alert(1)</script>"
result = {"state": "done", "result": {"pool": asked["pool"], "from": asked["from"]}, "report": report}
print(json.dumps({"state": "failed", "detail": "there is no record #99"} if kind == "wrong" else result), flush=True)
