"""The health check of a container: does this path of the local service return 200?"""

import http.client
import os
import sys

connection = http.client.HTTPConnection("127.0.0.1", int(os.environ["BAILIFF_HTTP_PORT"]), timeout=3)
connection.request("GET", sys.argv[1])
response = connection.getresponse()
sys.stdout.write(response.read().decode())
sys.exit(response.status != 200)
