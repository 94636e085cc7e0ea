-- A small world of entities: very many small objects that live for very different times.
--
-- Every step spawns entities (a table with a name, a position table, a velocity table, a growing trail and a closure
-- that moves it), moves the living ones, lets messages pass between neighbours as freshly built strings, and removes
-- those that have had their time. Random numbers come from a generator written here, so that every run and every
-- version of Lua does the same.

local STEPS = tonumber(arg[1]) or 450
local SPAWN_PER_STEP = 12

local state = 20260101
local function random(limit)
  state = (state * 1103515245 + 12345) % 2147483648
  return (state // 65536) % limit
end

local function vector(x, y)
  return { x = x, y = y }
end

local kinds = { "bird", "fish", "fox", "hare", "oak", "stone" }
local spawned = 0

local function spawn(step)
  spawned = spawned + 1
  local entity = {
    name = kinds[random(#kinds) + 1] .. "-" .. spawned,
    position = vector(random(1000), random(1000)),
    velocity = vector(random(11) - 5, random(11) - 5),
    ends = step + 1 + random(random(4) == 0 and 60 or 12),
    inbox = {},
    trail = {},
  }
  entity.move = function()
    -- A new position each time, as scripts do that treat vectors as values; the old ones remain as a trail.
    if #entity.trail < 8 then
      entity.trail[#entity.trail + 1] = entity.position
    end
    entity.position = vector(entity.position.x + entity.velocity.x, entity.position.y + entity.velocity.y)
  end
  return entity
end

local world = {}
local delivered, checksum = 0, 0

for step = 1, STEPS do
  for _ = 1, SPAWN_PER_STEP do
    world[#world + 1] = spawn(step)
  end
  for index, entity in ipairs(world) do
    entity.move()
    local neighbour = world[index % #world + 1]
    if random(6) == 0 then
      neighbour.inbox[#neighbour.inbox + 1] = entity.name .. " greets " .. neighbour.name .. " in step " .. step
    end
  end
  local living = {}
  for _, entity in ipairs(world) do
    for _, message in ipairs(entity.inbox) do
      delivered = delivered + 1
      checksum = (checksum * 31 + #message) % 1000003
    end
    if #entity.inbox > 0 then
      entity.inbox = {}
    end
    if entity.ends > step then
      living[#living + 1] = entity
    end
  end
  world = living
end

print(("%d spawned, %d living, %d messages, checksum %d"):format(spawned, #world, delivered, checksum))
