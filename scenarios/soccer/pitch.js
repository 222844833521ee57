// Draws one frame of a match: the pitch, the players by team, the ball, and what was found a moment ago.
export function draw(context, width, height, frame, fixed, colour) {
  const [left, bottom, right, top] = fixed.pitch, edge = 0.04 * (right - left);
  const scale = Math.min(width / (right - left + 2 * edge), height / (top - bottom + 2 * edge));
  const x = (metres) => width / 2 + (metres - (left + right) / 2) * scale, y = (metres) => height / 2 - (metres - (bottom + top) / 2) * scale;
  context.fillStyle = colour.pitch;
  context.fillRect(0, 0, width, height);
  context.strokeStyle = colour.lines;
  context.lineWidth = 1.5;
  context.strokeRect(x(left), y(top), (right - left) * scale, (top - bottom) * scale);
  line(context, x((left + right) / 2), y(top), x((left + right) / 2), y(bottom));
  circle(context, x((left + right) / 2), y((bottom + top) / 2), 9.15 * scale);
  context.stroke();
  context.lineWidth = 4;
  for (const goal of fixed.goals) {
    if (goal.along === "y") line(context, x(goal.line), y(goal.low), x(goal.line), y(goal.high));
    else line(context, x(goal.low), y(goal.line), x(goal.high), y(goal.line));
  }
  const size = Math.max(5, 0.9 * scale);
  context.font = `${Math.round(Math.max(9, size))}px system-ui, DejaVu Sans, sans-serif`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  for (const [number, team, playerX, playerY] of frame.players) {
    const first = team === fixed.teams[0];
    context.fillStyle = first ? colour.one : colour.two; // told apart by form, too
    context.beginPath();
    if (first) context.arc(x(playerX), y(playerY), size, 0, 7);
    else context.rect(x(playerX) - size, y(playerY) - size, 2 * size, 2 * size);
    context.fill();
    context.fillStyle = colour.panel;
    context.fillText(number, x(playerX), y(playerY));
  }
  if (frame.ball) {
    const [ballX, ballY, high] = frame.ball;
    context.fillStyle = colour.ball;
    circle(context, x(ballX), y(ballY), Math.max(3, 0.5 * scale * (1 + high / 4)));
    context.fill();
  }
  context.lineWidth = 2;
  frame.found.forEach(([name, foundX, foundY, age], place) => {
    const [placeX, placeY] = [x(foundX), y(foundY)];
    context.globalAlpha = Math.max(0.15, 1 - age / 3);
    context.strokeStyle = context.fillStyle = colour.early;
    circle(context, placeX, placeY, size * (1.4 + age));
    context.stroke();
    context.fillText(name, Math.min(Math.max(placeX, 40), width - 40), placeY - size * 2 - (place % 3) * 13);
  });
  context.globalAlpha = 1;
}

function line(context, fromX, fromY, toX, toY) { context.beginPath(); context.moveTo(fromX, fromY); context.lineTo(toX, toY); context.stroke(); }
function circle(context, x, y, radius) { context.beginPath(); context.arc(x, y, radius, 0, 7); }
