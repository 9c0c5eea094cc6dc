"""A real S3 server (moto's) as a process of its own, with a bucket `audit`; and an archive of segments for it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import boto3
from botocore.exceptions import BotoCoreError
from tests.wire import wait_until

from bailiff_devstack.ports import free_port

KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}
