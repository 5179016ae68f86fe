# Proves in the guest that software RoCE works at all: if this fails, the machine or the guest is at fault, not bornode.
set -e
ibv_devinfo -d rxe0 | grep -q PORT_ACTIVE || { ibv_devinfo -v; exit 1; }
for program in "ibv_rc_pingpong -e" ibv_srq_pingpong; do
  $program -d rxe0 -g 1 -n 200 >/tmp/server &
  server=$!
  until $program -d rxe0 -g 1 -n 200 10.77.0.1 >/tmp/client 2>/tmp/err; do
    grep -q "Couldn't connect" /tmp/err || { cat /tmp/err; exit 1; }
    kill -0 $server
  done
  wait $server
  echo "$program: $(tail -n 1 /tmp/client)"
done
