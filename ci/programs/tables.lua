-- Tables, strings, closures and coroutines: what lua's collector works on.
local state = 42
local function number(n) state = (state * 1103515245 + 12345) % 2147483648; return state // 65536 % n end

local trees = {}
local function tree(depth)
  if depth == 0 then return { leaf = number(1000) } end
  return { left = tree(depth - 1), right = tree(depth - 1), name = "node " .. number(100000) }
end
local function sum(node)
  if node.leaf then return node.leaf end
  return sum(node.left) + sum(node.right) + #node.name
end
local total = 0
for turn = 1, 20 do
  trees[turn % 4] = tree(14)
  total = total + sum(trees[turn % 4])
end
print(total)

local pieces, index = {}, {}
for i = 1, 250000 do
  local word = string.format("%x-%d", number(65536), i % 977)
  pieces[#pieces + 1] = word
  index[word] = (index[word] or 0) + 1
end
local distinct = 0
for _ in pairs(index) do distinct = distinct + 1 end
local text = table.concat(pieces, " ")
print(#text, distinct, select(2, text:gsub("a%x*%-1%d+", "<%0>")))
table.sort(pieces)
print(pieces[1], pieces[#pieces // 2], pieces[#pieces])

local function walker(limit)
  return coroutine.wrap(function() for i = 1, limit do coroutine.yield(function() return i * limit end) end end)
end
local steps = 0
for i = 1, 3000 do
  local walk = walker(20)
  for _ = 1, 20 do steps = steps + walk()() end
end
print(steps)
