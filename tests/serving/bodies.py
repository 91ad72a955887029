"""Rows as the protocols want them."""


def by_column(rows):
    return {name: [row[name] for row in rows] for name in rows[0]}


def tensors(rows):
    kinds = {"payment": "BYTES", "day": "BYTES", "country": "BYTES", "items": "INT64", "new_customer": "BOOL"}
    return [
        {"name": name, "datatype": kinds.get(name, "FP64"), "shape": [len(rows)], "data": values}
        for name, values in by_column(rows).items()
    ]
