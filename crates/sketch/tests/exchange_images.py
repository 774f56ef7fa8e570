"""Reads images that the test has written, or writes images for it, with Apache DataSketches.

Usage: exchange_images.py read|write DIRECTORY. Prints lines of a name and a number.
"""

import sys
from pathlib import Path

import datasketches as ds

COUNT = 100_000
directory = Path(sys.argv[2])


def image(name):
    return (directory / name).read_bytes()


def read():
    hll = ds.hll_sketch.deserialize(image("hll"))
    print("hll", hll.get_estimate())
    print("hll-low", hll.get_lower_bound(2))
    print("hll-high", hll.get_upper_bound(2))
    # The same texts, hashed by Python: a union must not count them again.
    same = ds.hll_sketch(14, ds.HLL_8)
    for number in range(COUNT):
        same.update(f"flow{number}")
    union = ds.hll_union(14)
    union.update(hll)
    print("hll-itself", union.get_result().get_estimate())
    union.update(same)
    print("hll-united", union.get_result().get_estimate())
    print("cpc", ds.cpc_sketch.deserialize(image("cpc")).get_estimate())
    print("theta", ds.compact_theta_sketch.deserialize(image("theta")).get_estimate())
    items = ds.frequent_strings_sketch.deserialize(image("items"))
    items.merge(ds.frequent_strings_sketch.deserialize(image("items")))
    for number in range(1000):
        name = f"flow{number}"
        print(f"low-{name}", items.get_lower_bound(name))
        print(f"high-{name}", items.get_upper_bound(name))
    print("kll", ds.kll_floats_sketch.deserialize(image("kll")).get_quantile(0.5, True))
    print("req", ds.req_floats_sketch.deserialize(image("req")).get_quantile(0.5, True))
    digest = ds.tdigest_double.deserialize(image("t-digest"))
    print("t-digest", digest.get_quantile(0.99))
    print("t-digest-weight", digest.get_total_weight())
    digest.merge(ds.tdigest_double.deserialize(image("t-digest")))
    print("t-digest-merged", digest.get_quantile(0.99))


def write():
    for name, kind in [("hll4", ds.HLL_4), ("hll6", ds.HLL_6), ("hll8", ds.HLL_8)]:
        for count in [5, 500, COUNT]:
            sketch = ds.hll_sketch(14, kind)
            for number in range(count):
                sketch.update(f"flow{number}")
            name_of_size = f"{name}-{count}"
            for form in ["compact", "updatable"]:
                serialized = getattr(sketch, f"serialize_{form}")()
                (directory / f"{name_of_size}-{form}").write_bytes(serialized)
            # What is read is marked as out of order, so the estimator is that of a union of two.
            union = ds.hll_union(14)
            union.update(sketch)
            union.update(sketch)
            print(name_of_size, union.get_result().get_estimate())
    cpc, theta = ds.cpc_sketch(11), ds.update_theta_sketch(12)
    items = ds.frequent_strings_sketch(10)
    kll, req = ds.kll_floats_sketch(200), ds.req_floats_sketch(12)
    digest = ds.tdigest_double(200)
    for number in range(COUNT):
        cpc.update(f"flow{number}")
        theta.update(f"flow{number}")
        items.update(f"flow{number % 2000 if number % 2 else 1}")
        kll.update(number)
        req.update(number)
        digest.update(number)
    images = {
        "cpc": cpc.serialize(),
        "theta": theta.compact().serialize(),
        "items": items.serialize(),
        "kll": kll.serialize(),
        "req": req.serialize(),
        "t-digest": digest.serialize(),
        "count-min": ds.count_min_sketch(3, 16).serialize(),
    }
    for name, serialized in images.items():
        (directory / name).write_bytes(serialized)
    print("cpc", cpc.get_estimate())
    print("theta", theta.get_estimate())
    print("items", items.get_estimate("flow1"))
    print("kll", kll.get_quantile(0.5, True))
    print("req", req.get_quantile(0.5, True))
    print("t-digest", digest.get_quantile(0.5))


{"read": read, "write": write}[sys.argv[1]]()
