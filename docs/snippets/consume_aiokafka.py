# usage: consume_aiokafka.py BOOTSTRAP
import asyncio
import json
import sys

from aiokafka import AIOKafkaConsumer


async def main():
    async with AIOKafkaConsumer("bailiff.audit", bootstrap_servers=sys.argv[1], auto_offset_reset="earliest") as kafka:
        async for message in kafka:
            ce = {name: value.decode() for name, value in message.headers}
            print(ce["ce_pool"], ce["ce_seq"], ce["ce_time"], ce["ce_type"], json.loads(message.value), flush=True)


asyncio.run(main())
