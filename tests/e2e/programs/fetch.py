"""Fetches a URL twice and prints status, length and digest: `fetch.py URL`."""
import hashlib
import sys
import urllib.request

for _ in range(2):
    with urllib.request.urlopen(sys.argv[1], timeout=20) as answer:
        body = answer.read()
        print(answer.status, len(body), hashlib.sha256(body).hexdigest())
