-- A speed test: tables, indices, joins, text, updates and deletes, in memory. What it prints depends on nothing but this file.
pragma journal_mode = off;
create table item(id integer primary key, kind integer, name text, body blob, price real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 150000)
insert into item select i, (i * 7919) % 257, printf('item %d of %x', i, i * 2654435761 % 65536), zeroblob(i % 400), (i * 31 % 1000) / 10.0 from n;
create index by_kind on item(kind, price);
create index by_name on item(name);
create table part(item integer, number integer, note text);
insert into part select id, id % 13, substr(name || hex(kind), 1 + id % 5) from item where id % 3 = 0;
create index by_item on part(item);
select count(*), sum(length(body)), round(sum(price), 1) from item;
select kind, count(*), round(avg(price), 3), min(name), max(name) from item group by kind order by kind limit 20;
select count(*), sum(length(note)) from item join part on part.item = item.id where item.kind < 100;
update item set name = upper(name) || '!' where kind % 5 = 1;
delete from item where kind % 11 = 3;
update item set body = cast(substr(hex(zeroblob(id % 900)), 1, id % 700) as blob) where id % 4 = 0;
select count(*), sum(length(body)), max(length(name)) from item;
select group_concat(name, ',') from (select name from item where id % 4001 = 0 order by name);
with recursive walk(i, x) as (select 1, 1 union all select i + 1, x * 48271 % 2147483647 from walk where i < 200000)
select count(distinct x % 5003), sum(x % 17) from walk;
drop table part;
vacuum;
select count(*), total(length(name)) from item where name like '%F!' or name glob 'item 1*';
