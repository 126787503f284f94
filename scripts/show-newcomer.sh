#!/usr/bin/env bash
# A newcomer's session, as it would be typed: start the service, make a key, a cell, a table, rows, entries with a time
# to live; a snapshot, more rows, an incremental; then lose the machine's data, start again, and find all of it there.
# Needs bash, curl, and a clone after `npm ci`. Fails if anything is not as it should be.
#
#   scripts/show-newcomer.sh
#
# CELLSTORE_OBJECT_STORE may name another object store than a folder; SHOW_FOLDER a folder to keep the results in.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=${SHOW_FOLDER:-$(mktemp -d)}
mkdir -p "$folder"
export CELLSTORE_DATA_DIR=$folder/data CELLSTORE_PORT=${CELLSTORE_PORT:-0}
export CELLSTORE_OBJECT_STORE=${CELLSTORE_OBJECT_STORE:-file://$folder/objects}
seconds_to_start=120
npm_pid='' node_pid=''

main() {
  trap clean_up EXIT
  say 'The service, from nothing: `npm start` builds if needed, and prints the first key once.'
  start first
  key=$(sed -n 's/^ *\(cell_sk_[0-9A-Za-z]*\)$/\1/p' "$folder/first.out")
  [[ -n $key ]] || fail 'no key was printed'

  say 'A key of our own.'
  request POST /v1/api-keys '{"name":"newcomer"}'
  expect '"key":"cell_sk_'
  key=$(field key)

  say 'A cell, a table, rows.'
  request POST /v1/databases '{"name":"acme"}'
  cell=$(field id)
  request POST "/v1/databases/$cell/sql" '{"sql":"CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT, age INTEGER)"}'
  request POST "/v1/databases/$cell/sql" '{"sql":"INSERT INTO users (name, age) VALUES (?, ?), (?, ?)","params":["Ann",31,"Bob",27]}'
  expect '"changes":2'

  say 'Keys and values, with a time to live and without.'
  request PUT "/v1/databases/$cell/kv/session:1" '{"value":"signed in","ttl_seconds":3600}'
  expect '"ttl_seconds":3600'
  request PUT "/v1/databases/$cell/kv/plan" '{"value":"free"}'
  request POST "/v1/databases/$cell/kv/ops/ttl" '{"keys":["session:1","plan","nothing"]}'
  expect ',-1,null]'

  say 'A snapshot; more rows; an incremental.'
  request POST "/v1/databases/$cell/backup"
  expect '"kind":"snapshot"'
  snapshot=$(field version)
  request POST "/v1/databases/$cell/sql" '{"sql":"INSERT INTO users (name, age) VALUES (?, ?)","params":["Cid",45]}'
  request PUT "/v1/databases/$cell/kv/plan" '{"value":"paid"}'
  request POST "/v1/databases/$cell/backup/incr"
  expect "\"base_version\":\"$snapshot\""
  incremental=$(field version)

  say 'The machine dies, and its data with it.'
  run kill -KILL "$node_pid"
  wait "$npm_pid" 2>/dev/null || true
  run rm -rf "$CELLSTORE_DATA_DIR"

  say 'A new start, with nothing but the object store. No new key is printed: the old one is good.'
  start second
  ! grep -q cell_sk_ "$folder/second.out" || fail 'a key was made where there were keys'
  request GET /v1/databases
  expect "\"id\":\"$cell\""
  request POST "/v1/databases/$cell/sql" '{"sql":"SELECT name, age FROM users ORDER BY id"}'
  expect '[{"name":"Ann","age":31},{"name":"Bob","age":27},{"name":"Cid","age":45}]'
  request GET "/v1/databases/$cell/kv/plan"
  expect '"value":"paid"'
  request GET "/v1/databases/$cell/kv/session:1"
  expect '"value":"signed in"'
  request GET "/v1/databases/$cell/backups"
  expect "$incremental"

  say 'And back to the snapshot.'
  request POST "/v1/databases/$cell/restore" "{\"version\":\"$snapshot\"}"
  expect '"restored":true'
  request POST "/v1/databases/$cell/sql" '{"sql":"SELECT count(*) AS users FROM users"}'
  expect '[{"users":2}]'

  say 'The end: SIGTERM to npm, and the exit code that npm hands on.'
  run kill -TERM "$npm_pid"
  local code=0
  wait "$npm_pid" || code=$?
  echo "exit code $code"
  ((code == 0)) || fail 'the end was not clean'
  printf 'cell=%s\nsnapshot=%s\nincremental=%s\n' "$cell" "$snapshot" "$incremental" >"$folder/result"
  npm_pid='' node_pid=''
  printf '\nEverything was there.\n'
}

# Starts the service in the background, waits until it serves, and shows what it printed.
start() {
  printf '\n$ CELLSTORE_DATA_DIR=%s CELLSTORE_OBJECT_STORE=%s npm start\n' "$CELLSTORE_DATA_DIR" "$CELLSTORE_OBJECT_STORE"
  npm start >"$folder/$1.out" 2>"$folder/$1.err" &
  npm_pid=$!
  local deadline=$((SECONDS + seconds_to_start))
  until grep -q '"msg":"serving"' "$folder/$1.err"; do
    kill -0 "$npm_pid" 2>/dev/null || { cat "$folder/$1.err" >&2; fail 'the service did not start'; }
    ((SECONDS < deadline)) || fail 'the service does not answer'
    sleep 0.1
  done
  cat "$folder/$1.out"
  address=$(sed -n 's/.* serves on \(http:[^ ]*\)$/\1/p' "$folder/$1.out")
  # Its own pid comes first in that file, before its workers'.
  node_pid=$(sed -n 's/^{"pid":\([0-9]*\).*/\1/p' "$CELLSTORE_DATA_DIR/owner.json")
}

# request METHOD PATH [JSON]: sends it as a person would, and shows the answer.
request() {
  local method=$1 path=$2 body=("${@:3}") shown
  shown="curl -X $method $address$path -H 'x-api-key: ${key:0:12}…'"
  ((${#body[@]} == 0)) || shown+=" -H 'content-type: application/json' -d '${body[0]}'"
  printf '\n$ %s\n' "$shown"
  answer=$(curl --silent --show-error --max-time 60 -X "$method" "$address$path" -H "x-api-key: $key" \
    ${body[0]+-H 'content-type: application/json' --data-binary "${body[0]}"})
  printf '%s\n' "${answer//$key/${key:0:12}…}"
}

expect() {
  [[ $answer == *"$1"* ]] || fail "the answer has no $1"
}

# A field of the last answer that holds a plain string.
field() {
  sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p" <<<"$answer"
}

run() {
  printf '\n$ %s\n' "$*"
  "$@"
}

say() {
  printf '\n\n# %s\n' "$1"
}

fail() {
  printf '\nshow-newcomer: %s\n' "$1" >&2
  exit 1
}

clean_up() {
  local pid
  for pid in $node_pid $npm_pid; do kill -KILL "$pid" 2>/dev/null || true; done
  [[ -n ${SHOW_FOLDER:-} ]] || rm -rf "$folder"
}

main
