#!/bin/sh
# Prints the many small statements that an application sends to SQLite, after the schema of inventory.sql.
i=0
while [ $i -lt 110 ]; do
  i=$((i + 1))
  echo "SELECT name, price FROM article WHERE number = $((i * 37 % 1500 + 1));"
  echo "INSERT INTO sale (article, customer, pieces, remark) VALUES ($((i * 53 % 1500 + 1)), $((i * 29 % 400 + 1)), $((i % 8 + 1)), 'order $i');"
  echo "SELECT count(*), sum(pieces), max(remark) FROM sale WHERE customer = $((i * 29 % 400 + 1));"
done
