# usage: produce_aiokafka.py BOOTSTRAP JOB
import asyncio
import json
import sys

from aiokafka import AIOKafkaProducer

job = {"demand": {"job": sys.argv[2], "tasks": [{"gpu_milli": 1000}]}, "spec": {"command": "nvidia-smi || true"}}
ce = {"specversion": "1.0", "id": sys.argv[2], "source": "/example", "type": "bailiff.SubmitJob.v1", "pool": "pool-a"}


async def main():
    async with AIOKafkaProducer(bootstrap_servers=sys.argv[1]) as kafka:
        headers = [(f"ce_{name}", value.encode()) for name, value in ce.items()]
        await kafka.send_and_wait("bailiff.requests", json.dumps(job).encode(), headers=headers)


asyncio.run(main())
