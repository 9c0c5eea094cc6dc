"""The health check of a container: does this page of the service here answer with 200?"""

import http.client
import os
import sys

connection = http.client.HTTPConnection("127.0.0.1", int(os.environ["BAILIFF_HTTP_PORT"]), timeout=3)
connection.request("GET", sys.argv[1])
answer = connection.getresponse()
sys.stdout.write(answer.read().decode())
sys.exit(answer.status != 200)
