-- A small shop in SQLite, in memory: tables with indices, rows made by recursive queries, joins, sorting, updates,
-- a trigger, text search, and many small statements as an application sends them.
-- Every number comes from arithmetic on row numbers, so that every run does the same.

PRAGMA journal_mode = MEMORY;
CREATE TABLE article (number INTEGER PRIMARY KEY, name TEXT NOT NULL, price INTEGER NOT NULL, stock INTEGER NOT NULL);
CREATE TABLE customer (number INTEGER PRIMARY KEY, name TEXT NOT NULL, town TEXT NOT NULL);
CREATE TABLE sale (number INTEGER PRIMARY KEY, article INTEGER NOT NULL, customer INTEGER NOT NULL,
  pieces INTEGER NOT NULL, remark TEXT);
CREATE INDEX article_by_name ON article (name);
CREATE INDEX sale_by_article ON sale (article);
CREATE INDEX sale_by_customer ON sale (customer, pieces);
CREATE TABLE movement (article INTEGER, change INTEGER);
CREATE TRIGGER sold AFTER INSERT ON sale BEGIN
  UPDATE article SET stock = stock - new.pieces WHERE number = new.article;
  INSERT INTO movement VALUES (new.article, -new.pieces);
END;

WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1500)
INSERT INTO article SELECT i, printf('%s %s %d', substr('red  blue greenwhiteblack', 1 + i % 5 * 5, 5),
  substr('screw bolt  washerspringvalve pipe  ', 1 + i % 6 * 6, 6), i * 7919 % 1500), 100 + i * 37 % 9000, 200 FROM n;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400)
INSERT INTO customer SELECT i, printf('customer %04d', i * 271 % 400), substr('AachenBremenCoburgDessauErfurt', 1 + i % 5 * 6, 6) FROM n;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9000)
INSERT INTO sale SELECT i, 1 + i * 104729 % 1500, 1 + i * 7 % 400, 1 + i % 9,
  CASE WHEN i % 40 = 0 THEN printf('deliver before %d, ring at the back door of house %d', i % 30, i % 200)
  WHEN i % 2 = 0 THEN 'deliver in the morning, ring at the back door, leave it with the neighbours if nobody opens, and call us then' END FROM n;

SELECT count(*), sum(stock), min(price), max(name) FROM article;
SELECT town, count(*), sum(pieces * price) FROM sale JOIN customer ON customer.number = sale.customer
  JOIN article ON article.number = sale.article GROUP BY town ORDER BY 3 DESC;
SELECT article.name, sum(pieces) AS sold FROM sale JOIN article ON article.number = sale.article
  GROUP BY article.number ORDER BY sold DESC, article.name LIMIT 20;
SELECT count(*) FROM sale WHERE remark LIKE '%house 77%';
UPDATE article SET price = price * 105 / 100 WHERE name LIKE 'blue%';
DELETE FROM sale WHERE pieces = 9;
