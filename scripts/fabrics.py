#!/usr/bin/env python3
"""What a fabric costs: one workload on a cluster in one process over each of them, with and without network batching.

    scripts/fabrics.py --weft build/release/weft [--workload smallbank] [--rounds 5]

The setups take turns; a row shows the round with the median rate. Printed as Markdown.
"""
import argparse
import json
import os
import subprocess
import tempfile

SETUPS = ["local", "shm", "tcp", "tcp + TLS"]


def certificates(folder):
    """An authority and a certificate of it, made here: three files."""
    def path(name):
        return os.path.join(folder, name)

    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], check=True, capture_output=True)

    def key(name):
        openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", path(name))

    key("ca.key")
    openssl("req", "-x509", "-new", "-key", path("ca.key"), "-subj", "/CN=fabrics", "-days", "1", "-out", path("ca.pem"))
    key("node.key")
    openssl("req", "-new", "-key", path("node.key"), "-subj", "/CN=node", "-out", path("node.csr"))
    openssl("x509", "-req", "-in", path("node.csr"), "-CA", path("ca.pem"), "-CAkey", path("ca.key"), "-CAcreateserial",
            "-days", "1", "-out", path("node.pem"))
    return ["--tls-ca", path("ca.pem"), "--tls-certificate", path("node.pem"), "--tls-key", path("node.key")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weft", required=True)
    parser.add_argument("--workload", default="smallbank")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", default="2")
    parser.add_argument("--keys", default="100000")
    args = parser.parse_args()
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        tls = certificates(folder)
        for _ in range(args.rounds):
            for batched in (True, False):
                for setup in SETUPS:
                    command = [args.weft, "bench", args.workload, "--nodes", "3", "--keys", args.keys, "--seconds",
                               args.seconds, "--skew", "none", "--json", "--fabric", setup.split()[0]]
                    if args.workload != "smallbank":
                        command.remove("--skew")
                        command.remove("none")
                    command += tls if setup.endswith("TLS") else []
                    command += [] if batched else ["--off", "network-batching"]
                    done = subprocess.run(command, check=True, capture_output=True, text=True)
                    results.setdefault((setup, batched), []).append(json.loads(done.stdout))

    def middle(setup, batched):
        return sorted(results[setup, batched], key=lambda r: r["tps"])[args.rounds // 2]

    print(f"{args.workload}, three nodes with three replicas in one process, {args.keys} keys a node, "
          f"median of {args.rounds} rounds of {args.seconds} s.\n")
    print("| fabric | txn/s | of local | p50 µs | p99 µs | messages a packet | without batching txn/s | of local | p50 µs "
          "| batching is worth |")
    print("|" + "---|" * 10)
    for setup in SETUPS:
        on, off = middle(setup, True), middle(setup, False)
        print(f"| {setup} | {on['tps'] / 1e6:.3f} M | {on['tps'] / middle('local', True)['tps']:.2f} "
              f"| {on['latency_us']['p50']:.0f} | {on['latency_us']['p99']:.0f} | {on['nw_batch']:.1f} "
              f"| {off['tps'] / 1e6:.3f} M | {off['tps'] / middle('local', False)['tps']:.2f} "
              f"| {off['latency_us']['p50']:.0f} | {on['tps'] / off['tps']:.1f} × |")


if __name__ == "__main__":
    main()
