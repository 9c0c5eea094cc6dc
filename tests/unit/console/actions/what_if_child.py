"""Replaces the process of a what-if: reports its progress, and ends as the request says or with its standard input."""

import json
import os
import sys

request = json.loads(sys.stdin.readline())
kind = request["yaml"]
print(json.dumps({"state": "reading", "done": 5, "of": request["records"]}), flush=True)
if kind == "dies":
    os._exit(1)
if kind == "waits":
    sys.stdin.read()
    os._exit(1)
report = "<p>plots</p><script>alert(1)</script>"
result = {"state": "done", "result": {"pool": request["pool"], "from": request["from"]}, "report": report}
print(json.dumps({"state": "failed", "detail": "there is no record #99"} if kind == "wrong" else result), flush=True)
