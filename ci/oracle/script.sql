create table t(a integer primary key, b text, c real);
with recursive n(x) as (select 1 union all select x + 1 from n where x < 150) insert into t select x, printf('%x-%d', x * 7919, x), x / 3.0 from n;
create index i on t(b);
select count(*), sum(c), max(b), group_concat(a % 7) from t where b like '%a%' and c between 5 and 40;
update t set c = round(c * 1.5, 2), b = upper(substr(b, 2)) || 'é' where a % 3 = 0;
select a, b, row_number() over (order by c desc) from t where a in (select a from t where c > 60) order by b limit 9;
delete from t where a % 5 = 1;
select json_extract('{"a":[1,2,{"b":3}]}', '$.a[2].b'), strftime('%Y-%W', '2020-02-29'), hex(zeroblob(5)), abs(-3), coalesce(null, 4), trim('  x ');
