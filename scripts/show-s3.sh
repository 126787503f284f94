#!/usr/bin/env bash
# The newcomer's session against S3, and a look at what it left there without cellstore: the objects listed by another S3
# client, and a cell restored by hand with zstd, tar and sqlite3.
#
#   scripts/show-s3.sh 's3://bucket/prefix?endpoint=http://127.0.0.1:7480&region=us-east-1&path_style=true'
#
# Credentials in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. Each run works under a prefix of its own and leaves its
# objects there. The other client is s3cmd, rclone, aws or curl: the first that is installed, or the one in S3_CLIENT.
set -euo pipefail
cd "$(dirname "$0")/.."

url=${1:?name the S3 URL}
export AWS_ACCESS_KEY_ID=${AWS_ACCESS_KEY_ID:?set it} AWS_SECRET_ACCESS_KEY=${AWS_SECRET_ACCESS_KEY:?set it}
SHOW_FOLDER=$(mktemp -d)
export SHOW_FOLDER

main() {
  trap 'rm -rf "$SHOW_FOLDER"' EXIT
  local part
  for part in zstd tar sqlite3; do command -v "$part" >/dev/null || fail "$part is not installed"; done
  read_url
  choose_client
  say "The bucket, made by $client if it is not there."
  "make_bucket_$client"

  CELLSTORE_OBJECT_STORE=$store scripts/show-newcomer.sh
  # shellcheck disable=SC1091 # what the session says of itself: cell, snapshot, incremental
  source "$SHOW_FOLDER/result"

  say "The objects, as $client sees them."
  "list_$client" "$prefix/" | tee "$SHOW_FOLDER/listing"
  grep -q "$snapshot" "$SHOW_FOLDER/listing" || fail 'the snapshot is not listed'
  grep -q "$incremental" "$SHOW_FOLDER/listing" || fail 'the incremental is not listed'
  restore_by_hand
  printf '\nIt is all in the bucket, and nobody needs us to read it.\n'
}

# The base, and on top of it the logs of the incremental: SQLite's own recovery applies them.
restore_by_hand() {
  local by_hand=$SHOW_FOLDER/by-hand log rows
  say "The incremental restored by hand: $client, zstd, tar, sqlite3."
  mkdir "$by_hand"
  fetch "$snapshot" "$by_hand"
  show cat "$by_hand/manifest.json"
  fetch "$incremental" "$by_hand"
  for log in "$by_hand"/wal-*; do
    show mv "$log" "$by_hand/cell.db-wal"
    show sqlite3 "$by_hand/cell.db" 'PRAGMA wal_checkpoint(TRUNCATE)'
  done
  show sqlite3 "$by_hand/cell.db" 'PRAGMA integrity_check'
  show sqlite3 -header "$by_hand/cell.db" 'SELECT * FROM users'
  rows=$(sqlite3 "$by_hand/cell.db" "SELECT group_concat(name || ' ' || age, ', ') FROM (SELECT * FROM users ORDER BY id)")
  [[ $rows == 'Ann 31, Bob 27, Cid 45' ]] || fail "the rows are $rows"
  show sqlite3 -header "$by_hand/cell.db" 'SELECT * FROM _cell_kv'
}

fetch() {
  printf '\n$ %s get %s | zstd -d | tar x\n' "$client" "$prefix/$1"
  "get_$client" "$prefix/$1" | zstd -dc | tar xv -C "$2"
}

# bucket, prefix (this run's own), endpoint, region, and the URL of this run.
read_url() {
  local run parsed
  run="show-$(date -u +%Y%m%dT%H%M%SZ)-$$"
  parsed=$(RUN=$run node -p '
    const url = new URL(process.argv[1])
    if (url.protocol !== "s3:" || !url.searchParams.get("endpoint")) throw new Error("It takes s3://bucket/prefix?endpoint=…")
    url.pathname = `${url.pathname.replace(/\/$/, "")}/${process.env.RUN}`
    const { hostname, pathname, searchParams: query } = url
    const values = [hostname, pathname.slice(1), query.get("endpoint"), query.get("region") ?? "us-east-1", url.href]
    values.join("\n")' "$url") || fail 'the URL is none of S3'
  { read -r bucket; read -r prefix; read -r endpoint; read -r region; read -r store; } <<<"$parsed"
  [[ $endpoint == http* ]] || fail 'the URL names no endpoint'
}

choose_client() {
  local each
  for each in ${S3_CLIENT:-s3cmd rclone aws curl}; do
    if command -v "$each" >/dev/null; then client=$each; break; fi
  done
  [[ -n ${client:-} ]] || fail 'no other S3 client is installed'
  local host=${endpoint#*://}
  # Some of rclone's versions refuse to start with it, and without TLS nobody needs it.
  [[ $endpoint == https* ]] || unset AWS_CA_BUNDLE
  # Files and variables, so that no credential stands on a command line.
  export RCLONE_CONFIG=/dev/null RCLONE_CONFIG_SHOW_TYPE=s3 RCLONE_CONFIG_SHOW_PROVIDER=Other
  export RCLONE_CONFIG_SHOW_ENV_AUTH=true RCLONE_CONFIG_SHOW_ENDPOINT=$endpoint RCLONE_CONFIG_SHOW_REGION=$region
  (umask 077; cat >"$SHOW_FOLDER/s3cmd" <<CONFIGURATION
[default]
access_key = $AWS_ACCESS_KEY_ID
secret_key = $AWS_SECRET_ACCESS_KEY
host_base = ${host%/}
host_bucket = ${host%/}
bucket_location = $region
use_https = $([[ $endpoint == https* ]] && echo True || echo False)
CONFIGURATION
    printf 'user = "%s:%s"\naws-sigv4 = "aws:amz:%s:s3"\nheader = "x-amz-content-sha256: UNSIGNED-PAYLOAD"\nsilent\nshow-error\nfail\n' \
      "$AWS_ACCESS_KEY_ID" "$AWS_SECRET_ACCESS_KEY" "$region" >"$SHOW_FOLDER/curl")
}

s3cmd_here() { s3cmd --config "$SHOW_FOLDER/s3cmd" "$@"; }
make_bucket_s3cmd() { s3cmd_here ls "s3://$bucket" >/dev/null 2>&1 || show s3cmd_here mb "s3://$bucket"; }
list_s3cmd() { show s3cmd_here ls --recursive "s3://$bucket/$1"; }
get_s3cmd() { s3cmd_here get --no-progress --quiet "s3://$bucket/$1" -; }

make_bucket_rclone() { show rclone mkdir "SHOW:$bucket"; }
list_rclone() { show rclone lsl "SHOW:$bucket/$1"; }
get_rclone() { rclone cat "SHOW:$bucket/$1"; }

aws_here() { aws --endpoint-url "$endpoint" --region "$region" "$@"; }
make_bucket_aws() { aws_here s3api head-bucket --bucket "$bucket" 2>/dev/null || show aws_here s3 mb "s3://$bucket"; }
list_aws() { show aws_here s3 ls --recursive "s3://$bucket/$1"; }
get_aws() { aws_here s3 cp --quiet "s3://$bucket/$1" -; }

curl_here() { curl --config "$SHOW_FOLDER/curl" "$@"; }
make_bucket_curl() { curl_here --head "$endpoint/$bucket" >/dev/null 2>&1 || show curl_here -X PUT "$endpoint/$bucket"; }
list_curl() { show curl_here "$endpoint/$bucket?list-type=2&prefix=${1//\//%2F}" | sed 's/<Contents>/\n&/g'; }
get_curl() { curl_here "$endpoint/$bucket/$1"; }

# Shows a command, then runs it.
show() {
  printf '\n$ %s\n' "${*/_here/}" >&2
  "$@"
}

say() {
  printf '\n\n# %s\n' "$1"
}

fail() {
  printf '\nshow-s3: %s\n' "$1" >&2
  exit 1
}

main
